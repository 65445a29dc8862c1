"""Reasons to skip something in an export that the user knows. All other reasons are limits of a format."""

NO_DATA = "it has no data in this dataset"
NOT_REQUESTED = "images were not requested"
NOT_SELECTED = "it was not selected"
