"""The data gate: rules over statistics and anomalies that stop a run before it trains on unfit data."""
