"""WHAT PEOPLE READ: a recommendation as table or Markdown, and the account of memory and time."""
