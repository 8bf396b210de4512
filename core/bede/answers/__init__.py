"""From events and projections to what a reader gets: views, rankings, briefs, recalls. Reads only, writes nothing."""
