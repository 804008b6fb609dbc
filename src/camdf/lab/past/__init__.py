"""Past the paper: where CAM-DF breaks and what our policies do there, one study a file, one page for all."""

from camdf.lab.past.calibration import CHAPTER as CALIBRATION
from camdf.lab.past.cold_start import CHAPTER as COLD_START
from camdf.lab.past.control_page import CHAPTER as CONTROL
from camdf.lab.past.deployment import CHAPTER as DEPLOYMENT
from camdf.lab.past.frontier_page import CHAPTER as FRONTIER
from camdf.lab.past.learning import CHAPTER as LEARNING
from camdf.lab.past.noise import CHAPTER as NOISE
from camdf.lab.past.noise_estimate import CHAPTER as NOISE_ESTIMATE

CHAPTERS = (FRONTIER, CALIBRATION, CONTROL, COLD_START, NOISE, NOISE_ESTIMATE, LEARNING, DEPLOYMENT)
"""In the order of the page."""
