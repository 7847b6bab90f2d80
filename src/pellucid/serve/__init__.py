"""Who can ask it over HTTP? LibreTranslate's API and our own, one thread that decodes, limits that are on, a page."""
