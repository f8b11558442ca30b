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

# Variable names by role. The generator draws distinct ones for a function, and
# takes one that the file has already only when it must.
ROLES = {
    "xs": "xs values items list nums data elems all rows series batch input entries given".split(),
    "x": "x v item e val cur elem entry one each it w u z".split(),
    "t": "total sum acc t res amount running whole tally result all2 so".split(),
    "best": "best top found pick cand leader champ winner".split(),
    "lim": "limit bound cutoff level mark ceiling border edge".split(),
    "c": "count c hits cnt num seen2 times matches".split(),
    "want": "want target wanted goal needle sought".split(),
    "i": "i pos idx at j ix place spot".split(),
    "out": "out result res list2 ret kept collected answer made built".split(),
    "k": "k factor by scale ratio mult".split(),
    "lo": "lo low from first least lower bottom".split(),
    "hi": "hi high to upper most last ceil".split(),
    "a": "a x first left p one here former".split(),
    "b": "b y second right q two there latter".split(),
    "n": "n num size m upto amount2 number".split(),
    "d": "d div q by2 divisor part".split(),
    "s": "s text str word in line phrase raw label".split(),
    "r": "r ch letter b symbol glyph".split(),
    "p": "p part mark end suffix tail".split(),
    "sep": "sep glue delim between gap mid".split(),
    "m": "m dict table index lookup2 book".split(),
    "key": "key k name id entry2".split(),
    "seen": "seen done known had already".split(),
    "def": "def fallback other alt otherwise spare".split(),
    "h": "h hours hrs".split(),
    "min": "minutes m mins".split(),
    "price": "price cost amount fee".split(),
    "pct": "pct percent rate cut".split(),
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
    while (found := _training_noun(rng)) in HELD_NOUNS:
        pass
    return found


def _training_noun(rng):
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(words()).title()
    if kind < 0.5:  # the start of a word and the end of another
        return (rng.choice(words())[: rng.randint(1, 5)] + rng.choice(words())[-rng.randint(2, 5) :]).title()
    if kind < 0.75:  # letters from anywhere in two or three words: every piece of the vocabulary turns up
        return "".join(_stretch(rng, rng.choice(words())) for _ in range(rng.randint(2, 3))).title()
    if kind < 0.85:
        return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))).title()
    return rng.choice(TRAIN_NOUNS)


def _stretch(rng, word):
    at = rng.randrange(len(word) - 1)
    return word[at : at + rng.randint(2, 4)]


def variables(rng, roles, taken):
    """{role: name} with distinct names; taken: names that the file has, which grows."""
    used, out = set(), {}
    for role in roles:
        free = [n for n in ROLES[role] if n not in used]
        name = rng.choice([n for n in free if n not in taken] or free)
        used.add(name)
        out[role] = name
    taken |= used
    return out
