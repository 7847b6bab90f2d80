"""The words: eighty-five nouns, twenty-five verbs, twenty-one adjectives, names, places and times."""

from pellucid.data.generated.grammar.french import conjugate
from pellucid.data.generated.grammar.words import IL, ILS, JE, NOUS, TU, Adjective, Adverb, Noun, Phrase, Verb


def _nouns(kind: str, lines: str) -> tuple[Noun, ...]:
    """Nouns from lines of English, its plural, French, its plural, gender; "-" for no plural."""
    rows = (line.replace("-", "").split(" ") for line in lines.strip().splitlines())
    return tuple(Noun(one, many, un, des, gender == "f", kind) for one, many, un, des, gender in rows)


def _adjectives(lines: str, before_noun: bool) -> tuple[Adjective, ...]:
    """Adjectives from lines of English, comparative, French forms."""
    rows = ([field.strip() for field in line.split("|")] for line in lines.strip().splitlines())
    return tuple(Adjective(english, more, tuple(french.split()), before_noun) for english, more, french in rows)


ADULTS = _nouns("adult", """
man men homme hommes m
woman women femme femmes f
""")
ROLES = _nouns("role", """
friend friends ami amis m
teacher teachers professeur professeurs m
doctor doctors médecin médecins m
student students étudiant étudiants m
neighbor neighbors voisin voisins m
king kings roi rois m
queen queens reine reines f
nurse nurses infirmière infirmières f
actress actresses actrice actrices f
""")
CHILDREN = _nouns("child", """
boy boys garçon garçons m
girl girls fille filles f
child children enfant enfants m
""")
KIN = _nouns("kin", """
father fathers père pères m
mother mothers mère mères f
brother brothers frère frères m
sister sisters sœur sœurs f
uncle uncles oncle oncles m
aunt aunts tante tantes f
""")
PEOPLE = ADULTS + ROLES + CHILDREN + KIN
ANIMALS = _nouns("animal", """
dog dogs chien chiens m
cat cats chat chats m
horse horses cheval chevaux m
bird birds oiseau oiseaux m
cow cows vache vaches f
mouse mice souris souris f
rabbit rabbits lapin lapins m
hen hens poule poules f
""")
DISHES = _nouns("dish", """
bread - pain - m
cheese - fromage - m
rice - riz - m
meat - viande - f
chocolate - chocolat - m
""")
DRINKS = _nouns("drink", """
milk - lait - m
water - eau - f
coffee - café - m
tea - thé - m
wine - vin - m
""")
SOUP = _nouns("drink", "soup - soupe - f")
FRUIT = _nouns("food", """
apple apples pomme pommes f
egg eggs œuf œufs m
orange oranges orange oranges f
cake cakes gâteau gâteaux m
tomato tomatoes tomate tomates f
""")
WORKS = _nouns("work", """
book books livre livres m
letter letters lettre lettres f
newspaper newspapers journal journaux m
story stories histoire histoires f
poem poems poème poèmes m
song songs chanson chansons f
film films film films m
""")
THINGS = _nouns("thing", """
house houses maison maisons f
car cars voiture voitures f
door doors porte portes f
window windows fenêtre fenêtres f
box boxes boîte boîtes f
key keys clé clés f
hat hats chapeau chapeaux m
dress dresses robe robes f
coat coats manteau manteaux m
shirt shirts chemise chemises f
table tables table tables f
chair chairs chaise chaises f
bed beds lit lits m
computer computers ordinateur ordinateurs m
""")
PLANTS = _nouns("plant", "tree trees arbre arbres m")
FLOWERS = _nouns("flower", "flower flowers fleur fleurs f")
INDOORS = _nouns("place", """
kitchen - cuisine - f
garden - jardin - m
bedroom - chambre - f
park - parc - m
street - rue - f
forest - forêt - f
village - village - m
""")
PLACES = _nouns("place", """
school - école - f
market - marché - m
station - gare - f
office - bureau - m
church - église - f
hotel - hôtel - m
hospital - hôpital - m
restaurant - restaurant - m
museum - musée - m
beach - plage - f
airport - aéroport - m
""")
NOUNS = {
    noun.english: noun
    for group in (PEOPLE, ANIMALS, DISHES, DRINKS, SOUP, FRUIT, WORKS, THINGS, PLANTS, FLOWERS, INDOORS, PLACES)
    for noun in group
}

ADJECTIVES = {
    adjective.english: adjective
    for adjective in (
        *_adjectives("""
small | smaller | petit petite petits petites
big | bigger | grand grande grands grandes
beautiful | more beautiful | beau belle beaux belles
old | older | vieux vieille vieux vieilles
new | | nouveau nouvelle nouveaux nouvelles
young | younger | jeune jeune jeunes jeunes
good | | bon bonne bons bonnes
""", before_noun=True),
        *_adjectives("""
tall | taller | grand grande grands grandes
red | | rouge rouge rouges rouges
yellow | | jaune jaune jaunes jaunes
white | | blanc blanche blancs blanches
black | | noir noire noirs noires
french | | français française français françaises
happy | happier | heureux heureuse heureux heureuses
sad | sadder | triste triste tristes tristes
sick | | malade malade malades malades
tired | | fatigué fatiguée fatigués fatiguées
rich | richer | riche riche riches riches
famous | more famous | célèbre célèbre célèbres célèbres
hot | | chaud chaude chauds chaudes
cold | | froid froide froids froides
""", before_noun=False),
    )
}


def _by_kind(table: dict[str, str]) -> dict[str, tuple[Adjective, ...]]:
    return {kind: tuple(ADJECTIVES[word] for word in words.split()) for kind, words in table.items()}


BESIDE_NOUN = _by_kind({
    "adult": "young beautiful old rich famous french sad happy sick",
    "role": "young old new rich famous french sad happy sick",
    "child": "small young beautiful french happy sad sick",
    "kin": "",
    "animal": "small big beautiful old young white black sick",
    "dish": "good french hot cold",
    "drink": "good hot cold",
    "food": "small big good beautiful",
    "work": "new old good beautiful french",
    "thing": "small big beautiful old new red yellow white black",
    "plant": "small big beautiful old",
    "flower": "small beautiful red yellow white",
})
AFTER_BE = _by_kind({
    "person": "happy sad sick tired rich famous young old tall french",
    "animal": "small big beautiful old young white black sick tired",
    "dish": "good cold hot",
    "drink": "good hot cold",
    "food": "small big good",
    "work": "old beautiful good",
    "thing": "small big beautiful old red yellow white black",
    "plant": "small big beautiful old",
    "flower": "small beautiful red yellow white",
})
COMPARED = {kind: tuple(a for a in adjectives if a.comparative) for kind, adjectives in AFTER_BE.items()}

VERBS = {
    row[0]: Verb(row[0], row[1], row[2], row[3].strip("-"), conjugate(row[4]), " ".join(row[5:]))
    for row in map(str.split, """
be is was - être
have has had - avoir
go goes went - aller
come comes came - venir
leave leaves left - partir
arrive arrives arrived - arriver
eat eats ate - manger
drink drinks drank - boire
read reads read - lire
write writes wrote - écrire
see sees saw - voir
take takes took - prendre
open opens opened - ouvrir
choose chooses chose - choisir
buy buys bought - acheter
look looks looked for chercher
love loves loved - aimer
put puts put on mettre
make makes made - faire
watch watches watched - regarder
sleep sleeps slept - dormir
sing sings sang - chanter
work works worked - travailler
speak speaks spoke to parler à
talk talks talked about parler de
""".strip().splitlines())
}

PRONOUNS = tuple(Phrase(*row) for row in (
    ("i", "je", JE), ("you", "tu", TU), ("he", "il", IL), ("she", "elle", IL, True), ("we", "nous", NOUS),
    ("they", "ils", ILS),
))
OBJECT_PRONOUNS = tuple(Phrase(*row) for row in (
    ("me", "me", JE), ("you", "te", TU), ("him", "le", IL), ("her", "la", IL, True), ("us", "nous", NOUS),
    ("them", "les", ILS),
))
WHO = Phrase("who", "qui")
NAMES = tuple(
    Phrase(name, name, IL, feminine, (name,))
    for names, feminine in (("paul pierre thomas louis marc", False), ("marie julie sophie alice emma", True))
    for name in names.split()
)
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
FREQUENCY = (Adverb("often", "souvent", True), Adverb("always", "toujours", True))
MANNER = (Adverb("well", "bien", False), Adverb("a lot", "beaucoup", False))

CITIES = (("paris", "paris"), ("lyon", "lyon"), ("rome", "rome"), ("berlin", "berlin"), ("london", "londres"),
          ("geneva", "genève"))
COUNTRIES = (("france", "france"), ("italy", "italie"), ("spain", "espagne"))  # all feminine: en france, d' italie
DAYS = (("monday", "lundi"), ("tuesday", "mardi"), ("wednesday", "mercredi"), ("thursday", "jeudi"),
        ("friday", "vendredi"), ("saturday", "samedi"), ("sunday", "dimanche"))
