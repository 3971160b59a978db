"""Word lists that the text generators draw from."""

# ruff: noqa: SIM905 (a list of one hundred quoted words cannot be read)

from __future__ import annotations

NOUNS: tuple[str, ...] = tuple(
    """
    account archive balance bridge budget cable camera canal captain carbon census channel chapter charter circuit
    climate clock coast column compass contract copper council crystal current database debate delay desert device
    diary district document engine evidence factory farmer ferry forest formula garden glacier harbour harvest history
    index island journal journey kitchen ladder language letter library lighthouse machine magnet market measure
    memory merchant metal meter mirror molecule morning motor museum network notebook ocean office orbit orchard
    parcel passage pattern pendulum period planet platform pocket policy pressure printer problem program project
    protein question railway record region reservoir result river route sample satellite schedule school season
    sensor signal silver station storm student surface survey switch telescope temple theory timber tower traffic
    treaty valley vessel village voltage weather window winter workshop
    """.split()
)

VERBS: tuple[str, ...] = tuple(
    """
    carries changes checks collects compares connects controls copies corrects counts covers describes divides drives
    explains extends fills follows forms guides heats holds improves joins keeps leads lifts limits marks measures
    moves opens orders passes predicts prepares protects pulls reaches records reduces repairs replaces reports
    resists returns reveals samples separates shapes shows signals stores supports surrounds tests traces turns warms
    """.split()
)

ADJECTIVES: tuple[str, ...] = tuple(
    """
    ancient annual bright broad careful central clear coastal cold common complex constant deep distant early eastern
    empty exact famous final foreign former general gentle heavy hidden hollow inner large late local long lower
    main modern narrow national northern old open plain private public quiet rapid rare recent regular remote rough
    second shallow sharp short simple single slow small smooth southern stable steady strong sudden thin upper urban
    usual warm western wide wooden
    """.split()
)

PREPOSITIONS: tuple[str, ...] = tuple(
    "above across after against along among around before behind below beside between beyond during inside near over "
    "through under without".split()
)

SUBJECTS: tuple[str, ...] = tuple(
    """
    account address agent archive audit batch billing buffer cache catalog channel client cluster config consumer
    credential cursor customer delivery digest endpoint event export feature filter gateway handler health history
    import index invoice job journal ledger limit lock manifest message metric migration notice order partition
    payment permission pipeline policy pool profile project queue quota rate record refund region registry replica
    report request retry route schedule schema session shard shipment snapshot status storage stream subscription
    task template tenant token transfer upload usage user vault webhook worker
    """.split()
)

ACTIONS: tuple[str, ...] = tuple(
    """
    acquire append apply build cancel check collect commit compact compare convert create decode delete dispatch drain
    encode enqueue evict expand expire fetch find flush format handle insert invalidate load lookup match merge
    normalise open parse persist prune publish purge push read rebuild reconcile refresh register release remove
    render replay resolve restore retry rotate schedule seal select send split store submit sync trim update validate
    verify write
    """.split()
)

MODULES: tuple[str, ...] = tuple("api billing core events export ingest jobs ledger search storage sync web".split())
