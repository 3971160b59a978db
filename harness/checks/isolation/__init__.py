"""Whether requests keep to themselves: the plan's sizing, the facts, the judge."""
