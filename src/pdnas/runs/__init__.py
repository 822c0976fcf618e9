"""What a run leaves behind: its directory, its records, and its result."""

from pdnas.runs.directory import (
    ARCHITECTURE,
    CHECKPOINT,
    CHECKPOINT_WEIGHTS,
    ENVIRONMENT,
    FOLDER,
    HISTORY,
    JOURNAL,
    LOCK,
    PIPELINE,
    PREDICTIONS,
    RECIPE,
    RESULT,
    SEARCH_STATE,
    SETTINGS,
    WEIGHTS,
    AnySettings,
    RunDirectory,
    load_run,
)
from pdnas.runs.machine import environment
from pdnas.runs.predictions import Predictions
from pdnas.runs.record import MOST, Count, Figure, Record, Seconds, Share
from pdnas.runs.result import Control, DataRecord, Result, SearchReport, SplitRecord, Trial
from pdnas.runs.scores import Difference, Scores

__all__ = [
    "ARCHITECTURE",
    "CHECKPOINT",
    "CHECKPOINT_WEIGHTS",
    "ENVIRONMENT",
    "FOLDER",
    "HISTORY",
    "JOURNAL",
    "LOCK",
    "MOST",
    "PIPELINE",
    "PREDICTIONS",
    "RECIPE",
    "RESULT",
    "SEARCH_STATE",
    "SETTINGS",
    "WEIGHTS",
    "AnySettings",
    "Control",
    "Count",
    "DataRecord",
    "Difference",
    "Figure",
    "Predictions",
    "Record",
    "Result",
    "RunDirectory",
    "Scores",
    "SearchReport",
    "Seconds",
    "Share",
    "SplitRecord",
    "Trial",
    "environment",
    "load_run",
]
