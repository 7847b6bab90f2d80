"""Ablations: factors × seeds as data, a process a run, and a report with intervals and corrected tests."""
