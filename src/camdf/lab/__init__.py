"""The lab: replays of logged tasks, paired comparisons, and every table and figure of the paper."""
