"""Names for generated packages; training and held-out ones share no noun.

Every function is called verb + noun, so no function name of a held-out task
occurs in training. Most training nouns are drawn from thousands of words of
library comments, or invented from syllables: the model has to learn to copy
names, whatever tokens they fall into, and not to know them.
"""

import functools
import re

import stdlib

TRAIN_NOUNS = """Prices Scores Orders Items Points Weights Values Ages Days Hours Costs Sizes Levels Marks Grades Votes
Ranks Rates Sums Counts Lengths Widths Heights Depths Speeds Temps Wages Taxes Fees Tips Debts Loans Bills Coins Cards
Books Pages Words Lines Letters Names Labels Tags Codes Keys Colors Shapes Forms Rooms Doors Seats Tables Chairs Lamps
Trees Leaves Roots Seeds Plants Flowers Fruits Apples Pears Plums Nuts Birds Fish Cats Dogs Horses Sheep Goats Cows Pigs
Cars Buses Trains Planes Ships Boats Bikes Roads Streets Towns Cities States Stars Moons Suns Clouds Storms Winds Rains
Teams Games Goals Matches Rounds Turns Moves Steps Jumps Runs Songs Notes Tunes Bands Films Plays Scenes Acts Parts
Users Groups Posts Files Folders Disks Servers Queries Packets Ports Hosts Nodes Links Paths Jobs Tasks Queues Events
Errors Tests Bugs Cups Plates Forks Spoons Knives Pots Pans Meals Soups Salads Cakes Breads Teas Coffees""".split()

HELD_NOUNS = """Parcels Tickets Invoices Lanterns Bridges Islands Castles Engines Magnets Pillows Blankets Bottles
Candles Carpets Mirrors Hammers Ladders Buckets Baskets Helmets Saddles Anchors Compasses Telescopes Violins Drums
Trumpets Puzzles Marbles Kites Balloons Fountains Glaciers Canyons Meadows Harbors Orchards Vineyards Beehives
Sparrows Falcons Salmons Turtles Lizards Beetles Crickets Walnuts Almonds Cherries Melons""".split()

TRAIN_PACKAGES = """shop stats geo text util calc math2 list ledger game score bank farm kitchen school garden
sport music travel weather store report tools basic helper number letters money clock zoo""".split()
HELD_PACKAGES = "depot museum studio clinic bakery library2 chapel stable workshop tower".split()

SYLLABLES = "ba be bo da do fa fi ga go ka ke ki la le lo ma mi mo na no pa pe ra re ri sa so ta te ti va vo za zu".split()

# Variable names by role. The generator draws distinct ones for a function.
ROLES = {
    "xs": "xs values items list nums data elems all".split(),
    "x": "x v item e val cur elem".split(),
    "t": "total sum acc t res amount".split(),
    "best": "best top found pick cand".split(),
    "lim": "limit bound cutoff level mark".split(),
    "c": "count c hits cnt num".split(),
    "want": "want target wanted goal".split(),
    "i": "i pos idx at".split(),
    "j": "j k right end".split(),
    "out": "out result res list ret".split(),
    "k": "k factor by scale".split(),
    "lo": "lo low from first".split(),
    "hi": "hi high to upper".split(),
    "a": "a x first left p one".split(),
    "b": "b y second right q two".split(),
    "n": "n num size m".split(),
    "d": "d div q".split(),
    "s": "s text str word in".split(),
    "r": "r ch letter b".split(),
    "p": "p part mark end".split(),
    "sep": "sep glue delim between".split(),
    "m": "m dict table index".split(),
    "key": "key k name id".split(),
    "def": "def fallback other alt".split(),
    "seen": "seen done known".split(),
    "ok": "ok found has".split(),
    "as": "as us ws".split(),
    "bs": "bs vs zs".split(),
    "h": "h hours hrs".split(),
    "min": "minutes m mins".split(),
    "price": "price cost amount".split(),
    "pct": "pct percent rate".split(),
    "y": "y year".split(),
    "mid": "mid half m".split(),
    "from": "from start begin".split(),
    "till": "till stop finish".split(),
}


@functools.cache
def words():
    """Words of 4 to 10 letters from library comments; none is a held-out noun, in singular or plural."""
    held = {n.lower() for n in HELD_NOUNS} | {n.lower().rstrip("s") for n in HELD_NOUNS}
    found = set()
    for _, text in stdlib.files():
        for comment in re.findall(r"//(.*)", text):
            found.update(re.findall(r"\b[a-z]{4,10}\b", comment))
    return sorted(w for w in found if w not in held and w.rstrip("s") not in held)


def noun(rng, held):
    """A noun for a function name."""
    if held:
        return rng.choice(HELD_NOUNS)
    kind = rng.random()
    if kind < 0.55:
        return rng.choice(words()).title()
    if kind < 0.75:
        return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))).title()
    return rng.choice(TRAIN_NOUNS)


def variables(rng, roles):
    """{role: name} with distinct names."""
    used, out = set(), {}
    for role in roles:
        name = rng.choice([n for n in ROLES[role] if n not in used])
        used.add(name)
        out[role] = name
    return out
