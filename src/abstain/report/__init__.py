"""The report of an audit: one HTML file that opens offline, and tables to work on with."""

from abstain.report.page import render, write_report

__all__ = ["render", "write_report"]
