"""Notices: what users are told without asking for the log."""

NOTICE_LOG = "passsearch.notice"
"""Name of the logger of notices; the command line prints them always."""
