"""A dozen made-up tools, for the examples beside it."""

CATALOGUE = {
    "get_weather": "Weather forecast for a city",
    "send_email": "Send an email to a person",
    "read_email": "Read the latest email in the inbox",
    "search_flights": "Search flights between two cities on a date",
    "book_flight": "Book a flight for a passenger",
    "find_hotel": "Find a hotel in a city",
    "book_hotel": "Book a hotel room",
    "convert_currency": "Convert an amount between currencies",
    "create_event": "Create an event in the calendar",
    "translate_text": "Translate a text into another language",
    "stock_price": "Price of a stock today",
    "play_music": "Play a song",
}
