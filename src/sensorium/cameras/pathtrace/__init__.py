"""The ``pathtrace`` renderer: photo-realistic images by Mitsuba 3."""
