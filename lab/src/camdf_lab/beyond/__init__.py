"""Past the paper: where CAM-DF breaks and what our policies do there, one study a file, one page for all."""

from camdf_lab.beyond.calibration import STUDY as CALIBRATION
from camdf_lab.beyond.cold_start import STUDY as COLD_START
from camdf_lab.beyond.deployment import STUDY as DEPLOYMENT
from camdf_lab.beyond.doubts import STUDY as DOUBTS
from camdf_lab.beyond.frontier_page import STUDY as FRONTIER
from camdf_lab.beyond.intents import STUDY as INTENTS
from camdf_lab.beyond.labels import STUDY as LABELS
from camdf_lab.beyond.noise import STUDY as NOISE
from camdf_lab.beyond.noise_estimate import STUDY as NOISE_ESTIMATE
from camdf_lab.beyond.none_needed import STUDY as NONE_NEEDED
from camdf_lab.beyond.past_tasks import STUDY as PAST_TASKS
from camdf_lab.beyond.promises_page import STUDY as PROMISES
from camdf_lab.beyond.recourse_page import STUDY as RECOURSE

STUDIES = (
    *(FRONTIER, DOUBTS, CALIBRATION, PROMISES, COLD_START, INTENTS, LABELS, PAST_TASKS, NONE_NEEDED),
    *(NOISE, NOISE_ESTIMATE, DEPLOYMENT, RECOURSE),
)
"""In the order of the page."""
