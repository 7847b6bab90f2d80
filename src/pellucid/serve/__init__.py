"""Who can ask it over HTTP? LibreTranslate's API and our own, threads that decode, limits that are on, a page."""
