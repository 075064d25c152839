"""The report: one HTML file, whole in itself, that shows what a trace holds and what the checks made of it."""

from isotone.report.material import Chosen, Material, gather
from isotone.report.page import render_report

__all__ = ["Chosen", "Material", "gather", "render_report"]
