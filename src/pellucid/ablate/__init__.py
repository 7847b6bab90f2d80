"""Which choices matter? Factors × seeds as data, a process a run, a report with intervals and corrected tests."""
