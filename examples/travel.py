"""A dozen made-up tools and what people asked of them, for the examples beside it. Nobody has labelled anything."""

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

REQUESTS = [
    "Will it rain in Oslo tomorrow?",
    "Find me a cheap flight to Rome and book it",
    "I need a bed in Lyon for Friday night",
    "How much are 200 dollars in euros?",
    "Did Ada write back? If so, answer that I am coming",
    "Put dinner with Bo on Thursday into my calendar",
    "How do I say 'good evening' in Japanese?",
    "Something by the Beatles, please",
]
