"""Pronouns by position: each sentence neutralised (verbs agreeing) and exchanged, written by hand."""

import pytest

from equipoise.text import Lexicon

WORDS = Lexicon.load("equipoise")

# text, neutral with agree=True, exchanged
CASES = [
    # object or determiner
    ("A man looks at her.", "A person looks at them.", "A woman looks at him."),
    ("A man holds her bag.", "A person holds their bag.", "A woman holds his bag."),
    ("He gave her a ring.", "They gave them a ring.", "She gave him a ring."),
    ("He gave her his umbrella.", "They gave them their umbrella.", "She gave him her umbrella."),
    ("A dog behind her on a leash", "A dog behind them on a leash", "A dog behind him on a leash"),
    ("She talks to her", "They talk to them", "He talks to him"),
    ("A crowd watches her and him", "A crowd watches them and them", "A crowd watches him and her"),
    ("A photo of her and her dog", "A photo of them and their dog", "A photo of him and his dog"),
    ("They follow her, smiling", "They follow them, smiling", "They follow him, smiling"),
    ("A cat next to her", "A cat next to them", "A cat next to him"),
    ("A cat beside her while it rains", "A cat beside them while it rains", "A cat beside him while it rains"),
    ("A child shows her the phone", "A child shows them the phone", "A child shows him the phone"),
    ("A boy helps her cut the cake", "A child helps them cut the cake", "A girl helps him cut the cake"),
    ("They let her ride", "They let them ride", "They let him ride"),
    ("People watching her playing tennis", "People watching them playing tennis", "People watching him playing tennis"),
    ("A girl in her bathing suit", "A child in their bathing suit", "A boy in his bathing suit"),
    ("A bride in her wedding dress", "A newlywed in their wedding dress", "A groom in his wedding dress"),
    ("She lies on her back", "They lie on their back", "He lies on his back"),
    ("A man is pulling her back", "A person is pulling them back", "A woman is pulling him back"),
    ("He walks her home.", "They walk them home.", "She walks him home."),
    ("A woman in her home", "A person in their home", "A man in his home"),
    ("She turns to her right", "They turn to their right", "He turns to his right"),
    ("He kisses her softly.", "They kiss them softly.", "She kisses him softly."),
    ("A girl with her family", "A child with their family", "A boy with his family"),
    ("She and her elderly father", "They and their elderly parent", "He and his elderly mother"),
    (
        "A man hugs her tightly and smiles",
        "A person hugs them tightly and smiles",
        "A woman hugs him tightly and smiles",
    ),
    ("Her own two children", "Their own two children", "His own two children"),
    ("She brought her over-sized bag", "They brought their over-sized bag", "He brought his over-sized bag"),
    ("The man made her happy.", "The person made them happy.", "The woman made him happy."),
    ("A dog licks her (again)", "A dog licks them (again)", "A dog licks him (again)"),
    # his: determiner or possessive
    ("The bike is his.", "The bike is theirs.", "The bike is hers."),
    ("A friend of his is waving", "A friend of theirs is waving", "A friend of hers is waving"),
    ("The hat is hers", "The hat is theirs", "The hat is his"),
    ("His is bigger than hers", "Theirs is bigger than theirs", "Hers is bigger than his"),
    ("He rides his off-road bike", "They ride their off-road bike", "She rides her off-road bike"),
    ("He scratches his back", "They scratch their back", "She scratches her back"),
    ("The red one is his, not hers", "The red one is theirs, not theirs", "The red one is hers, not his"),
    ("A man and his wife", "A person and their partner", "A woman and her husband"),
    # subjects and verbs
    ("She is tall.", "They are tall.", "He is tall."),
    ("She's tall.", "They're tall.", "He's tall."),
    ("She's been here", "They've been here", "He's been here"),
    ("He was tired and she wasn't", "They were tired and they weren't", "She was tired and he wasn't"),
    ("He often carries boxes", "They often carry boxes", "She often carries boxes"),
    ("She sits and reads", "They sit and read", "He sits and reads"),
    ("Is she waiting?", "Are they waiting?", "Is he waiting?"),
    ("Does he surf?", "Do they surf?", "Does she surf?"),
    ("He has a kite", "They have a kite", "She has a kite"),
    ("She doesn't ski", "They don't ski", "He doesn't ski"),
    ("He can swim", "They can swim", "She can swim"),
    ("She watches as he goes", "They watch as they go", "He watches as she goes"),
    ("she quickly washes dishes", "they quickly wash dishes", "he quickly washes dishes"),
    # him, reflexives
    ("A dog runs to him.", "A dog runs to them.", "A dog runs to her."),
    (
        "A man takes a picture of himself",
        "A person takes a picture of themselves",
        "A woman takes a picture of herself",
    ),
    (
        "She looks at herself in the mirror",
        "They look at themselves in the mirror",
        "He looks at himself in the mirror",
    ),
    # capitals, quotes, possessives, dashes
    ("HER DOG BARKS", "THEIR DOG BARKS", "HIS DOG BARKS"),
    ("Her dog barks.", "Their dog barks.", "His dog barks."),
    ("“Her hat!” he says", "“Their hat!” they say", "“His hat!” she says"),
    ("The woman’s bag and the man's hat", "The person’s bag and the person's hat", "The man’s bag and the woman's hat"),
    ("The women's race", "The people's race", "The men's race"),
    ("A man-woman pair", "A person-person pair", "A woman-man pair"),
    ("her—the winner—waves", "them—the winner—waves", "him—the winner—waves"),
    # titles
    ("Mr. Lee waves", "Mx. Lee waves", "Ms. Lee waves"),
    ("Miss Lee waves", "Mx Lee waves", "Miss Lee waves"),
    ("Players miss the ball", "Players miss the ball", "Players miss the ball"),
    ("Yes, sir.", "Yes, friend.", "Yes, ma'am."),
    # articles follow
    ("An actress bows", "A performer bows", "An actor bows"),
    ("An uncle waves", "A relative waves", "An aunt waves"),
    ("A male athlete", "An athlete", "A female athlete"),
    # adjectives
    ("A male in a suit", "A person in a suit", "A female in a suit"),
    ("Male and female surfers", "Surfers", "Female and male surfers"),
    ("Female doctor smiling", "Doctor smiling", "Male doctor smiling"),
    # anyone already
    ("Each rider and his or her horse", "Each rider and their horse", "Each rider and his or her horse"),
    ("He or she is waiting", "They are waiting", "He or she is waiting"),
    # not about anyone
    ("A queen-size bed and a cowboy hat", "A queen-size bed and a cowboy hat", "A queen-size bed and a cowboy hat"),
    ("A man-made lake", "A man-made lake", "A man-made lake"),
    # other letters
    ("Élodie and her café", "Élodie and their café", "Élodie and his café"),
    ("人 man 人", "人 person 人", "人 woman 人"),
]


@pytest.mark.parametrize(
    ("verbs", "plural"),
    [
        ("focuses refocuses focusses buses", "focus refocus focus bus"),
        ("uses pauses causes excuses houses", "use pause cause excuse house"),
        ("canoes tiptoes toes hoes shoes snowshoes", "canoe tiptoe toe hoe shoe snowshoe"),
        ("goes does undergoes echoes vetoes", "go do undergo echo veto"),
        ("unties reties ties lies belies underlies", "untie retie tie lie belie underlie"),
        ("empties carries relies parties", "empty carry rely party"),
        ("aches caches watches reaches", "ache cache watch reach"),
        ("waltzes quizzes buzzes gazes", "waltz quiz buzz gaze"),
    ],
)
def test_verbs_behind_they_are_words(verbs, plural):
    for verb, expected in zip(verbs.split(), plural.split(), strict=True):
        assert WORDS.neutralise(f"She {verb}", agree=True) == f"They {expected}"


def test_there_are_enough_cases():
    assert len(CASES) >= 60
    assert len({text for text, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(("text", "neutral", "exchanged"), CASES, ids=[c[0] for c in CASES])
def test_pronoun_case(text: str, neutral: str, exchanged: str):
    assert WORDS.neutralise(text, agree=True) == neutral
    assert WORDS.swap(text) == exchanged
