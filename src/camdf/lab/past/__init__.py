"""Past the paper: where CAM-DF breaks and what our policies do there, one study a file, one page for all."""

from camdf.lab.past.calibration import CHAPTER as CALIBRATION
from camdf.lab.past.control_page import CHAPTER as CONTROL
from camdf.lab.past.frontier_page import CHAPTER as FRONTIER

CHAPTERS = (FRONTIER, CALIBRATION, CONTROL)
"""In the order of the page."""
