"""What languages are called in English, by their codes (ISO 639)."""

_NAMES = dict(pair.split("=") for pair in """
af=Afrikaans am=Amharic ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali bs=Bosnian ca=Catalan cs=Czech
cy=Welsh da=Danish de=German el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish
fr=French ga=Irish gl=Galician gu=Gujarati ha=Hausa he=Hebrew hi=Hindi hr=Croatian hu=Hungarian hy=Armenian
id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh km=Khmer kn=Kannada ko=Korean ky=Kyrgyz
la=Latin lo=Lao lt=Lithuanian lv=Latvian mk=Macedonian ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese
my=Burmese nb=Norwegian ne=Nepali nl=Dutch no=Norwegian pa=Punjabi pl=Polish ps=Pashto pt=Portuguese ro=Romanian
ru=Russian si=Sinhala sk=Slovak sl=Slovenian so=Somali sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu
th=Thai tl=Tagalog tr=Turkish uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese xh=Xhosa yo=Yoruba zh=Chinese zu=Zulu
""".split())
_SAME = {"zh-hans": "zh", "zh-hant": "zt", "pt-br": "pb"}  # two codes of one language, in lower case


def plain(code: str) -> str:
    """One code for all that mean the same language; case means nothing."""
    return _SAME.get(code.lower(), code.lower())


def name_of(code: str) -> str:
    """The name of a language; what its code says more stands behind it, and a code that is not known is its own name.

    >>> name_of("pt-BR")
    'Portuguese (BR)'
    """
    language, _, rest = code.partition("-")
    name = _NAMES.get(language.lower(), code if not rest else language)
    return f"{name} ({rest})" if rest else name
