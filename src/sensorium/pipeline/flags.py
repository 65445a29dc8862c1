"""Bits and codes that the kernels branch on, once per column or sensor, and the columns of their tables."""

# flags of a column: what its hardware stage has to do
UNIFORM = 1  # bias, walk and noise are the same in every env
NOISE = 2
BIAS = 4
WALK = 8
DEADBAND = 16
SATURATION = 32
RESOLUTION = 64
MIX = 128  # the column is a weighted sum of three (axis misalignment)
FILTER = 256
SCALE = 512
SPREAD = 1024  # an offset drawn at every reset (turn-on bias)
DRIFT = 2048  # a Gauss-Markov drift
TEMPERATURE = 4096
OUTLIERS = 8192
INPUT_NOISE = 32768  # noise before the filter
ALIKE = 16384  # dead band, resolution and saturation are the same in every env
IDLE = UNIFORM | ALIKE  # flags that need no work: the hardware stage leaves a column without other flags unchanged

# flags of a sensor: what its timing has to do
RATE = 1
DROPOUT = 2
DELAYED = 4
LINEAR = 8
SAME = 16  # timing parameters are the same in every env
STUCK = 32
HELD = RATE | DROPOUT | STUCK  # flags of sensors that do not sample in every step

# how a column's raw signal is gathered from the engine's sensor data
GATHER_NONE = -1  # not gathered: a hook of the class computes it
GATHER_COPY = 0
GATHER_SUM = 1
GATHER_ROTATE = 2  # one component of the sum of world-frame vectors, rotated into a frame
GATHER_TIME = 3  # ticks of simulated time, times dt; on the GPU, where the engine's clock is float32

# columns of the per-column table
COLUMN_NAMES = ("op", "first", "count", "quat", "axis", "flags", "sensor", "mix_row", "mix_first", "extra_row")
OP, FIRST, COUNT, QUAT, AXIS, FLAGS, SENSOR, MIX_ROW, MIX_FIRST, EXTRA_ROW = range(10)

# columns of the per-return-column table
RETURN_NAMES = (
    "source",
    "sensor",
    "linear",
    "ring_first",
    "ring_slots",
    "history_first",
    "history_length",
    "stride",
)
R_SOURCE, R_SENSOR, R_LINEAR, R_RING_FIRST, R_RING_SLOTS, R_HISTORY_FIRST, R_HISTORY_LENGTH, R_STRIDE = range(8)

# columns of the per-sensor table: its rows in the rings of sample times; 0 slots without delay
SENSOR_NAMES = ("first", "slots")
S_FIRST, S_SLOTS = range(2)

# parameters of columns, and of sensors' timing
P_NOISE, P_BIAS, P_RANDOM_WALK, P_RESOLUTION, P_DEADBAND, P_LOW, P_HIGH = range(7)
T_RATE, T_DELAY, T_JITTER, T_DROPOUT, T_STUCK = range(5)

# fields of columns with further imperfections: parameters, coefficients of the filter, and state
EXTRA_NAMES = (
    "scale_error",
    "bias_spread",
    "drift_size",
    "decay",
    "temperature_drift",
    "temperature",
    "outliers",
    "outlier_size",
    "b0",
    "b1",
    "b2",
    "a1",
    "a2",
    "input_noise",
    "l11",
    "l21",
    "l22",
    "offset",
    "drift",
    "z1",
    "z2",
)
(
    E_SCALE,
    E_SPREAD,
    E_DRIFT_SIZE,
    E_DECAY,
    E_TEMPERATURE_DRIFT,
    E_TEMPERATURE,
    E_OUTLIERS,
    E_OUTLIER_SIZE,
    E_B0,
    E_B1,
    E_B2,
    E_A1,
    E_A2,
    E_INPUT_NOISE,
    E_L11,
    E_L21,
    E_L22,
    E_OFFSET,
    E_DRIFT,
    E_Z1,
    E_Z2,
) = range(21)
