"""Lines of chats with everything that identifies marked, invented for tests: ``my name is [PERSON:Ann Lee]``.

``SEEN`` are the lines at which the rules were made, ``UNSEEN`` were written before the rules ran on them and the rules
were not changed after: what they find there is what they find.
"""

SEEN = """\
Hi, my name is [PERSON:Maria Gonzalez] and I'd like a table for four.
this is [PERSON:Tom] calling about dinner on [DATE:March 3rd]
my name's [PERSON:john smith], number is [PHONE:415-555-0132]
Could you book under the name [PERSON:Okonkwo] please?
i'm [PERSON:Priya], we spoke yesterday
Thanks [PERSON:Daniel]!
Dear [PERSON:Mrs Whitfield|Whitfield], your table is ready.
Mr. [PERSON:Nakamura] will arrive at [TIME:7:30 pm]
Sure, you can reach me on [PHONE:+44 7911 123456] any time.
my cell is [PHONE:(212) 555-0187] thanks
its [PHONE:four one five five five five zero one nine nine]
email is [EMAIL:ann.lee+bookings@example.com]
you can mail [EMAIL:bob at example dot org] too
see our menu at [URL:https://www.example.com/menu?id=7]
my booking number is [ORDER:BK-48213]
Confirmation code: [ORDER:RX7K29Q]
I live at [ADDRESS:221 Baker Street] so somewhere close to that
deliver to [ADDRESS:1600 Amphitheatre Pkwy, Suite 200]
we are at [ADDRESS:48 North Hill Road], [ADDRESS:SW1A 1AA]
card is [CARD:4111 1111 1111 1111]
my iban is [IBAN:DE89 3704 0044 0532 0130 00]
born [DATE:12/05/1984]
my birthday is [DATE:5 June 1990], any cake?
follow us [HANDLE:@bluedoor_sf]
I'm in [LOCATION:Chicago] this week
do you have anything in [LOCATION:New York]?
we need 12 chairs and 3 high chairs
it costs $1,250.00 in total
the name on the booking is [PERSON:de la Cruz]
my husband [PERSON:Olivier] will call
[PERSON:Keiko] here, can I change it?
sent from [IP:192.168.10.20]
my passport number is [ORDER:X1234567]
tracking 1Z is [ORDER:1Z999AA10123456784]
ssn [ORDER:078-05-1120]
"""

UNSEEN = """\
Good evening, [PERSON:Fiona MacLeod] speaking.
hi it's [PERSON:Raj] again, sorry
please put it under [PERSON:Castellanos]
my name is [PERSON:wei zhang] and there will be six of us
Surname is [PERSON:Abernathy], first name [PERSON:Colin]
could you tell [PERSON:Beatrice] that we are late?
I'm meeting [PERSON:Yusuf] and [PERSON:Ingrid] there
it's for my boss, [PERSON:Mr Delacroix|Delacroix]
Prof. [PERSON:Lindqvist] has a peanut allergy
talk to [PERSON:Marguerite] about the deposit
cheers [PERSON:dave]
my mobile: [PHONE:07700 900982]
ring [PHONE:0161 496 0000] after [TIME:6pm]
you can WhatsApp me on [PHONE:+1 (650) 555-0123]
[PHONE:650 555 0177] is the best number
my old one was [PHONE:+33 1 99 00 12 34]
[PHONE:555-0143] is the extension line
send the receipt to [EMAIL:k.okafor@mail.example.co.uk] please
its [EMAIL:jenny_99@example.net]
link: [URL:http://example.org/r/88]
found you on [URL:www.tables.example.com]
reservation [ORDER:R-20931] for tonight
my order no. is [ORDER:778812]
case number [ORDER:INC0045512] is still open
the locator was [ORDER:QWZ4T8]
I have a voucher, code [ORDER:SPRING24XK]
invoice [ORDER:2024-00871] looks wrong
we moved to [ADDRESS:17b Elm Grove]
pick me up from [ADDRESS:350 Fifth Avenue, Floor 20]
office is on [ADDRESS:9 Rue du Bac] in [LOCATION:Paris]
I'm coming from [LOCATION:San Francisco, CA|San Francisco]
any good tapas around [LOCATION:Shoreditch]?
we liked [ORGANIZATION:Chez Panisse] a lot
have you heard of [ORGANIZATION:The French Laundry|French Laundry]
[LOCATION:boston] would work as well
card ending [CARD:4242 4242 4242 4242] exp 04/27
iban [IBAN:GB82 WEST 1234 5698 7654 32]
on [DATE:the 14th of February|14th of February] at [TIME:8 o'clock]
[DATE:Dec 24] at [TIME:20:15] works
dob [DATE:03.11.1979]
ping me [HANDLE:@the.real.ana]
Do you have space for 15 at noon?
Budget is about 60 dollars a head
Can we sit outside?
We had the tasting menu last year and loved it
My friend is allergic to nuts
Yes please, a window seat
do they serve Korean barbecue
no rush at all
the total was 84.50 with service
2 adults, 1 child (3 years old)
Could I get a 5-star place?
Between 6 and 8 is fine
I'd prefer Mexican to Indian tonight
Hello, how can I help you today?
"""
