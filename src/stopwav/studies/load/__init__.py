"""The study `load`: how many people a recogniser or server can serve at once."""
