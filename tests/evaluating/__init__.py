"""How well search finds what was said: questions with known answers, asked of the product as a user asks it."""
