"""Pictures of results. They need matplotlib: ``pip install 'psephos[report]'``; it loads when one is drawn."""

from psephos.report.plots import PICTURE_SUFFIXES, TradeOffLine, check_picture, plot_process, plot_tradeoff

__all__ = ["PICTURE_SUFFIXES", "TradeOffLine", "check_picture", "plot_process", "plot_tradeoff"]
