"""What a server can do, each thing tried."""
