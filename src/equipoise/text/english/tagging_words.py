"""Words that the tagger of captions knows: closed classes whole, of the open classes what captions use.

A word that stands nowhere here is a noun unless its ending says otherwise, so nouns are listed only where they could be
taken for something else.
"""

from __future__ import annotations

from equipoise.text.english.verb_forms import verb_forms


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words(
    """
    a an the this that these those his her its their my your our some any each every both all no another either
    neither several many few much more most less least enough such what which whose one two three four five six
    seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
    thirty forty fifty sixty seventy eighty ninety hundred thousand million dozen half
    """
)

SUBJECTS = _words("he she they it who that which we i you there someone somebody everyone everybody nobody")

PRONOUNS = SUBJECTS | _words(
    """
    him them me us whom hers theirs mine yours ours himself herself itself themselves myself yourself ourselves
    something anything nothing everything anyone anybody oneself
    """
)

BE = _words("is are was were be been being am 's 're 'm")

HELPERS = _words(
    """
    has have had having does do did doing done will would can could may might must shall should 'll 'd 've ca wo
    gon na ought cannot
    """
)
"""Auxiliaries besides "be": function words also where they stand alone ("has a hat")."""

PREPOSITIONS = _words(
    """
    in on at by with without within from to into onto over under underneath near next beside besides behind
    between through throughout across along alongside against toward towards thru via above below beneath during
    after before for of about among amongst amid past per upon off up down out than like unlike beyond despite
    except until till since atop aboard amidst versus vs vs.
    """
)

FUNCTION_WORDS = (
    DETERMINERS
    | PRONOUNS
    | BE
    | HELPERS
    | PREPOSITIONS
    | _words(
        """
    and or but nor yet so as if while whilst when where why how because although though whether unless once not
    n't 't & + - ai plus etc etc. whatever whichever whoever wherever oh please yes ok okay -lrb- -rrb- -lsb-
    -rsb-
    """
    )
)

ADVERBS = _words(
    """
    very too quite rather really just also still only almost even never always often sometimes again already
    soon now then later today tonight yesterday tomorrow away together apart aside ahead here forward forwards
    backward backwards sideways upside indoors outdoors upstairs downstairs uphill downhill underwater upright
    upwards downwards upward downward inward outward overhead elsewhere everywhere somewhere anywhere nowhere
    instead perhaps maybe however therefore otherwise somewhat anyway else ever twice thrice midair mid-air
    mostly nearly barely fully partially slightly well abroad afar seemingly possibly apparently
    """
)

ADVERBS_OR_FUNCTION = _words("outside inside around nearby opposite")
"""Before a noun phrase a preposition, else an adverb."""

ADVERBS_OR_ADJECTIVES = _words("fast hard high low close early late straight far long alone wide nearby tight")
"""Before a noun or after "be" an adjective, else an adverb."""

ADJECTIVES = _words(
    """
    big small large little huge tiny giant massive enormous gigantic miniature mini tall short long wide narrow
    thick thin fat skinny slim slender broad deep shallow steep flat round oval rectangular triangular circular
    curved straight bent crooked pointy sharp blunt old new young elderly ancient modern antique vintage
    contemporary retro rustic historic historical traditional old-fashioned used recent fresh stale ripe rotten
    raw good bad nice great beautiful pretty lovely gorgeous ugly cute adorable handsome attractive fancy
    elegant stylish plain simple basic ordinary regular normal typical usual unusual strange odd weird funny
    silly goofy crazy wacky unique special rare common hot cold warm cool chilly wet dry damp moist icy frozen
    snowy rainy sunny cloudy foggy misty hazy windy stormy overcast humid clear dark bright dim dull shiny
    glossy matte vivid pale colorful colourful multicolored colored coloured monochrome multi-colored
    multi-coloured neon pastel striped checkered checked plaid spotted polka patterned floral plush clean dirty
    messy neat tidy dusty muddy sandy grassy rocky leafy bushy hilly mountainous wooded bare barren rural urban
    suburban residential commercial industrial public private local foreign full empty busy crowded quiet loud
    noisy calm peaceful serene lively deserted abandoned vacant packed open closed shut happy sad angry tired
    sleepy asleep awake alive dead bored excited scared afraid surprised curious serious playful cheerful
    friendly lonely proud shy brave hungry thirsty sick healthy fit strong weak blind injured concentrated
    relaxed content upset intense ready able unable available likely certain sure aware alone wooden woolen
    golden metallic ceramic electric electrical electronic digital automatic manual mechanical portable
    mobile stainless knitted inflatable delicious tasty yummy sweet sour salty spicy bitter savory juicy crispy
    crunchy creamy cheesy greasy vegetarian vegan homemade gourmet edible frosted glazed iced toasted wild tame
    domestic domesticated furry hairy fuzzy fluffy feathered woolly shaggy bald bearded female male pregnant
    naked nude topless shirtless barefoot blonde brunette blond redheaded american english french german italian
    spanish mexican chinese japanese asian african european indian british greek thai hawaiian arctic tropical
    western eastern northern southern victorian christian left-handed right-handed bare-chested front-facing
    rear upper lower inner outer main major minor final last next first second third fourth fifth single double
    triple whole entire complete partial extra additional other same different various multiple numerous
    separate individual similar identical opposite own total professional amateur official formal casual
    personal famous popular important rich poor cheap expensive fine soft hard smooth rough rigid stiff loose
    tight heavy lightweight solid hollow tender fragile fast slow quick rapid sudden easy difficult tough
    possible impossible safe dangerous careful careless real fake artificial natural true false actual apparent
    visible invisible transparent opaque translucent blurry blurred grainy unclear aerial panoramic vertical
    horizontal diagonal parallel upside-down low high outdoor indoor nearby overhead distant remote adjacent far
    upcoming oncoming military royal religious medical athletic competitive festive seasonal annual daily
    assorted sized shaped aged haired flavored scented themed furnished detailed decorative ornate intricate lit
    well-lit sunlit unlit unmade undressed unfinished unidentified unknown unoccupied uncooked unripe uneaten
    foamy choppy wavy bubbly curly spiky chubby muscular petite blue-eyed lush lavish luxurious cozy comfortable
    spacious roomy compact tight-fitting quaint scenic picturesque majestic interesting amazing stunning
    charming exciting boring appetizing good-looking outstanding surrounding unsuspecting loving missing
    crosslegged cross-legged two-story multi-story one-way double-decker sole mixed made-up broken worn
    gray-haired ajar aloft afloat ablaze shady smoky breezy frosty wintry dreamy chunky flaky sticky slippery
    wobbly bumpy lumpy cheery hind woven overgrown tasteful mid polar solar lone mere sheer utter virtual vast
    slight bulky stocky sturdy rusty rusted musty worn-out shabby tattered dead-end gloomy eerie spooky creepy
    scary mysterious magical tan beige maroon navy teal turquoise crimson greenish reddish bluish yellowish
    brownish grayish
    """
)

ADJECTIVES_OR_NOUNS = _words(
    """
    red blue green yellow white black brown gray grey pink purple orange silver gold violet front back top
    middle left right square adult human electric cold fellow chief giant miniature antique male female blonde
    brunette blond elderly individual western light evil patient fit dark
    """
)
"""Before a noun an adjective, after an article without one a noun.

Materials are not among them: "a glass table" is a compound.
"""

ING_NOUNS = _words(
    """
    building morning evening ceiling clothing railing wedding painting drawing king ring string spring wing
    thing sibling pudding frosting icing topping lighting stuffing filling seasoning bedding flooring siding
    paneling roofing awning carving crossing clearing gathering meeting earring duckling awnings sling lightning
    ping underling housing plumbing shelving fencing scaffolding upholstery bowling sightseeing offspring inning
    innings feeling wiring lettering writing sterling viking dumpling dressing outing serving helping parking
    marking engraving landing covering opening beginning ending setting greeting trimming tiling molding piping
    coating
    """
)
"""Words in -ing that name a thing."""

GERUND_NOUNS = _words(
    """
    living dining parking cutting baking cooking shopping ironing fishing swimming racing sewing washing waiting
    changing skiing sailing boarding landing mixing serving skating frying rolling riding bathing diving
    wrestling boxing bowling skateboarding snowboarding surfing gaming running training walking hiking camping
    climbing cycling vending drinking eating sleeping dressing meeting sitting playing grazing carving chopping
    measuring drying filing writing reading wedding picking loading docking jumping steering driving batting
    pitching catching grooming packing painting spinning weaving building feeding mailing viewing seating
    operating fencing
    """
)
COMPOUND_HEADS = _words(
    """
    room rooms lot lots area areas station stations machine machines pool pools table tables gear equipment suit
    suits trunks bag bags meter meters garage garages space spaces spot spots pan pans pin sheet sheets dish
    dishes mall malls center cart carts pole poles boat boats rod rods trip trips track tracks court courts ring
    board boards stick sticks event competition contest lesson lessons class school suitcase shoes pants shorts
    strip bay field store range ramp rink slope slopes park parks tub costume helmet glove gloves cage plate
    practice match cabinet desk ground grounds pad jacket outfit stall stalls structure wheel wheels lane trough
    post pen counter hole bowl bowls cup cups spoon knife console controller remote chair system session stand
    """
)
"""A word of the first set before one of the second is part of its name ("living room", "cutting board")."""

PARTICIPLE_ADJECTIVES = _words(
    """
    smiling running flying moving sleeping standing sitting crying growing floating hanging laughing grazing
    blooming leading matching remaining missing working passing towering winding overlooking rolling boiling
    burning barking jumping speeding waving setting rising falling crashing melting glowing blinking flashing
    shining sparkling dripping flowing rushing racing charging cooing lounging overflowing aging yawning resting
    swimming galloping dancing bending flowering sliding folding rocking reclining revolving spinning hovering
    steaming sizzling
    """
)

PLURALS = _words(
    """
    people men women children feet teeth sheep fish deer cattle geese mice oxen police pants jeans shorts
    scissors glasses sunglasses clothes goggles trousers pajamas trunks tongs binoculars skis buffalo elk
    wildlife gentlemen ladies policemen firemen policewomen cows
    """
)

NOUNS = _words(
    """
    family belly jelly butterfly fly bully lily ally rally trolley assembly supply reply monopoly doily july
    italy bed bread shed sled seed weed feed reed speed breed steed hundred kindred wed thread head kid bus
    grass glass dress mattress class address gas lens tennis canvas compass cross moss boss princess waitress
    actress mess press pass loss bass brass process success business fitness wilderness kindness darkness
    harness series species christmas texas asparagus cactus octopus hippopotamus walrus campus circus virus
    status focus surplus bonus radius atlas iris oasis dais pelvis news chess guess progress congress festival
    hospital animal signal metal pedal medal petal meal deal seal arrival mural cereal terminal canal rival
    sandal journal portal capital cathedral vandal crystal individual professional potential material table
    cable vegetable vegetables constable fable stable olive hive dive archive wife knife life cave glove stove
    sleeve wave olives detective motive native locomotive captive relative topic picnic music traffic fabric
    clinic mechanic public plastic graphic attic comic logic panic arctic ceramic graphics monkey alley valley
    hockey jockey honey money chimney donkey turkey kidney key jersey handful mouthful spoonful dish fish radish
    brush bush wish finish radishes bicyclist tourist toilet oven kitchen chicken garden children women heaven
    mitten kitten token men raven linen dozen citizen alien maiden screen queen teen canteen person season
    reason end wind bottom stop
    """
)
"""Nouns with an ending of another class."""

VERB_FORMS = verb_forms(
    """
    ride walk run stand sit lie lay hold look watch play jump fly swing hit throw catch kick pitch serve ski
    surf skate skateboard snowboard swim dive sail paddle row drive race travel cruise roll slide glide climb
    hike crawl chase leap hop dance sing perform pose smile laugh cry yell talk speak chat discuss listen eat
    drink bite chew lick feed cook bake grill fry boil roast prepare make cut chop slice peel stir mix pour fill
    wear carry bring take give get put place set hang pull push drag lift raise lower drop pick reach grab touch
    point show display feature depict contain include hug kiss pet cuddle snuggle nap sleep rest relax lounge
    lean kneel crouch squat bend stretch balance perch graze gather herd lead follow pass cross approach enter
    leave exit arrive depart board unload load park stop wait turn go come move head land hover soar float drift
    work build paint draw write read type text study teach learn use try attempt practice compete win lose clean
    wash brush comb dry wipe sweep scrub rinse shave blow dress undress tie zip open close shut lock unlock
    press operate fix repair install inspect examine check measure sell buy shop pay order offer deliver see
    view face surround cover decorate line litter overlook separate connect attach stack pile arrange group
    cluster crowd collect consist appear seem become remain stay keep start begin finish continue help let allow
    want need like love enjoy celebrate attend meet greet shake wave clap cheer dig plow plant water grow bloom
    rake mow trim shear milk ring toss flip spin twirl trick grind crash fall trip tumble break crack burn melt
    freeze shine glow light reflect shade cast hide peek peer stare gaze glance sniff smell bark growl scratch
    wag roam wander trot gallop splash spray drip soak dip drench sink strike swat tackle block guard defend
    score dribble shoot aim launch release observe photograph film record capture snap tow haul transport ship
    pedal steer taste sample sip gulp swallow nibble munch stick poke stuff wrap unwrap fold unfold pack unpack
    top garnish sprinkle spread drizzle toast season plate present assist support protect rescue save ask tell
    say call answer think know believe pretend consider wonder seat mount dismount saddle harness leash create
    design craft carve sew knit stitch print label mark sign post live die exist happen occur wrestle fight box
    battle argue exercise juggle skip hurry rush speed zoom dash sprint jog stroll march parade cycle bike scoot
    nurse cradle rock soothe crush mash blend whisk grate shred squeeze spot notice find discover search hunt
    fish entertain conduct advertise promote indicate direct warn fence enclose border frame flank adjoin
    splatter stain scatter tilt rotate twist equip wade bathe cling clutch grip grasp dangle swoop flap nestle
    adorn converse interact share hand navigate maneuver bounce dock anchor moor wind lap fasten strap overflow
    demonstrate tend bow test tuck sport sunbathe stroke groom mingle wheel tower bridge plan shower converge
    gnaw yawn blur giggle straighten bandage weave resemble
    """
)
"""Form -> which forms it is: base, s, ing, past (also participle)."""

COMPOUND_NOUNS = _words(
    """
    bat board plate light park cross train shop plant water face hand head ring row line group crowd cluster
    herd stack pile order sign post label print mark frame fence border box bike cycle ship film record spot
    trick trip lap test bow wheel drip top dress milk paint fish saddle harness leash rock season toast shade
    burn crack block guard score brush comb lock tie zip text type point view place set display feature cover
    mix pet race slide fly wave pitch drink bite break stop love need use work study practice parade battle
    fight ski surf snowboard skateboard pass load support design craft present spray wind nurse hug kiss nap
    dance smile sport stroke smell stain cook sample plan seat leave groom sink shower roll land tower bridge
    pack
    """
)
"""Verbs that are rather nouns, also after a noun ("traffic lights")."""

NOUN_FIRST = COMPOUND_NOUNS | _words(
    """
    swing catch serve fall turn help start finish march skate rescue blow lounge throw kick hit climb dive hike
    jump leap laugh yell crash spread guess stretch rest walk run ride play look watch pose stand show drive
    """
)
"""Verbs that are nouns where nothing says otherwise, but verbs after a noun ("a man rides")."""
