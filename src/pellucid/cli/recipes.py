"""pellucid recipes"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.cli.arguments import parse
from pellucid.recipes import read_recipe, recipe_names


@dataclass
class Recipes:
    """List the runs that ship, with what each costs and what it should score."""

    json: bool = False
    """print them as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Prints a paragraph a recipe."""
    arguments = parse(Recipes, program, words)
    recipes = [read_recipe(name) for name in recipe_names()]
    if arguments.json:
        print(json.dumps([{"name": recipe.name, **recipe.about} for recipe in recipes], ensure_ascii=False))
        return 0
    for recipe in recipes:
        print(recipe.name)
        for key, text in recipe.about.items():
            print(f"    {key + ':':<8} {text}")
    print("\npellucid train NAME trains one; pellucid train NAME --dry-run shows what it is made of")
    return 0
