"""Characters that SentencePiece should never cut, merge or forget, by category: `tokenizer.symbols` names them.

A rare character that is not among the `character_coverage` becomes unknown, and a frequent one is merged with its
neighbours, so that "，但" and "但" are different pieces. A symbol is a piece of its own, always.
"""

from pellucid.errors import ConfigError

_ASCII = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

CATEGORIES: dict[str, list[str]] = {
    # Ideographic and full-width marks, vertical forms; the dash and the ellipsis of Chinese are two characters wide.
    "cjk_punctuation": [*"，。、；：？！「」『』（）［］｛｝〈〉《》【】〔〕〖〗〘〙〚〛〝〞〟〰～·・‧﹏＿－／＼",
                        *"｜＂＇＃＆＊＠｀＾．",
                        *"〃々〆〇〻〼〽︰︱︳︵︶︷︸︹︺︻︼︽︾︿﹀﹁﹂﹃﹄﹐﹑﹒﹔﹕﹖﹗﹙﹚﹛﹜﹝﹞", "——", "……"],
    "latin_punctuation": [*_ASCII, *"¡¿«»‹›‘’‚‛“”„‟‐‑‒–—―‖…•‣‥¨´¯¸ˆ˜‾⁓′″‴‵‶"],
    "mathematics": [*"±×÷¬∓∔∕∖∗∘∙√∛∜∝∞∟∠∡∢∣∤∥∦∧∨∩∪∫∬∭∮∯∰∴∵∶∷∼∽≀≁≂≃≄≅≆≈≉≊≌≍≒≔≕≗≙≜≝≟≠≡≢≤≥≦≧≨≩≪≫≮≯≰≱≲≳≺≻⊂⊃⊄⊅⊆⊇⊊⊋⊎⊏⊐",
                    *"⊓⊔⊕⊖⊗⊘⊙⊢⊣⊤⊥⊨⊲⊳⋀⋁⋂⋃⋄⋅⋆⋈⋮⋯⋰⋱∀∁∂∃∄∅∆∇∈∉∊∋∌∍∎∏∐∑−＋＝＜＞⌈⌉⌊⌋⟨⟩⟦⟧ℂℍℕℙℚℝℤℵℏℑℜ℘",
                    *"⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"],
    "greek": [*"ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρςστυφχψωϑϕϖϱϵ"],
    "arrows": [*"←↑→↓↔↕↖↗↘↙↚↛↞↠↣↤↦↩↪↰↱↲↳↵↶↷↺↻↼↽⇀⇁⇄⇅⇆⇋⇌⇐⇑⇒⇓⇔⇕⇦⇧⇨⇩➔➜➡⟵⟶⟷⟸⟹⟺"],
    "currency": [*"¢£¤¥฿₠₡₢₣₤₥₦₧₨₩₪₫€₭₮₯₰₱₲₳₴₵₶₷₸₹₺₻₼₽₾₿＄￠￡￥￦"],
    "units": [*"°‰‱℃℉Åµ％℅㎎㎏㎜㎝㎞㎡㎥㏄㏎㏑㏒㏕㎀㎁㎂㎃㎄㎅㎆㎇㎈",
              *"㎉㎐㎑㎒㎓㎔㎖㎗㎘㎟㎠㎢㎣㎤㎦㎧㎨㎩㎪㎫㎬㎭㎰㎱㎲㎳㎴㎵㎶㎷㎸㎹㎺㎻㎼㎽㎾㎿㏀㏁"],
    "shapes": [*"■□▢▣▤▥▦▧▨▩▪▫▬▭▮▯▰▱▲△▴▵▶▷►▻▼▽▾▿◀◁◄◅◆◇◈◉◊○◌◍◎●◐◑◒◓◔◕◘◙◢◣◤◥◦◯★☆☉☐☑☒✓✔✕✖✗✘✦✧❖♠♡♢♣♤♥♦♧",
               *"─━│┃┄┅┆┇┈┉┊┋┌┐└┘├┤┬┴┼═║╔╗╚╝╠╣╦╩╬╭╮╯╰█▓▒░▀▄▌▐"],
    "legal": [*"§¶©®℗℠™ª℀℁℆№℡"],
    "reference": [*"†‡※⁂⁎⁑⁕‸⁀⁋⁌⁍☞☜①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳❶❷❸❹❺❻❼❽❾❿⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹ",
                  *"㈠㈡㈢㈣㈤㈥㈦㈧㈨㈩㊀㊁㊂㊃㊄㊅㊆㊇㊈㊉♀♂☎☏♩♪♫♬♭♮♯"],
}


def symbols_of(categories: tuple[str, ...]) -> list[str]:
    """The symbols of these categories, each once.

    Raises:
        ConfigError: there is no category of that name.
    """
    unknown = [name for name in categories if name not in CATEGORIES]
    if unknown:
        raise ConfigError(f"there is no category of symbols {unknown[0]!r}", where="tokenizer.symbols",
                          fix=f"choose {', '.join(CATEGORIES)}")
    return list(dict.fromkeys(symbol for name in categories for symbol in CATEGORIES[name]))
