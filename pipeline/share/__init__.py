"""A page about one or several runs, to show to others: a folder that needs no server and loads nothing.

write_share([find(Path("runs/chicago-taxi"))], Path("shared/taxi"), name="Taxi", description="")
"""
