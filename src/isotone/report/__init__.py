"""The report: one HTML file, whole in itself, that shows what a trace holds and what the checks made of it."""

from isotone.report.cutout import CutOut, choose_cutouts
from isotone.report.page import render_report, write_report
from isotone.report.story import Story, tell_stories

__all__ = ["CutOut", "Story", "choose_cutouts", "render_report", "tell_stories", "write_report"]
