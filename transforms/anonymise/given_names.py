"""Common given names, for the second look alone: the rules that replace do not know them.

Those that are words of their own (will, mark, grace, rose) or months are not among them: they would be everywhere.
"""

from __future__ import annotations

_TEXT = """
aaron abdul abigail adam adrian ahmed aisha alan albert alejandro alex alexander alexandra alexis alfred ali
alice alison allison amanda amelia amy ana andre andrea andreas andrew angela anita ann anna anne annie anthony
antonio arjun arthur ashley austin barbara ben benjamin bernard beth betty beverly billy bob bobby brandon
brenda brian bruce bryan caleb cameron camille carl carla carlos carmen carol caroline carolyn catherine cathy
charles charlie charlotte chen cheryl chloe chris christian christina christine christopher claire clara claudia
colin connor craig crystal cynthia daniel daniela danielle danny darren dave david dean deborah debra denise
dennis derek diana diane diego donald donna doris dorothy doug douglas dylan eddie edward eileen elaine eleanor
elena eli elizabeth ella ellen emily emma eric erica erik erin ethan eugene eva evan evelyn fatima felix
fernando fiona francesca francis francisco frank frederick gabriel gareth gary george gerald giovanni gloria
gordon graham greg gregory hannah hans harold harry hassan heather hector helen henry howard hugo ian ibrahim
ingrid irene isaac isabel isabella ivan jack jacob jacqueline jake james jamie jan jane janet janice jason
javier jean jeff jeffrey jennifer jenny jeremy jerry jesse jessica jim jimmy joan joanna joanne joe joel john
johnny jon jonathan jordan jorge jose joseph joshua joyce juan juanita judith judy julia julian julie justin
karen karl kate katherine kathleen kathryn kathy katie keith kelly ken kenneth kevin kim kimberly kyle larry
laura lauren laurie lawrence leah lee leo leon leonard leslie liam linda lisa logan lori louis louise lucas lucy
luis luke lynn madison marco marcus margaret maria marie marilyn mario martha martin marvin mary mason matthew
maureen max megan mehmet melanie melissa michael michelle miguel mike mohamed mohammed molly monica muhammad
nadia nancy natalie natasha nathan neil nicholas nick nicola nicole nina noah nora oliver olivia omar oscar
pablo pamela patricia patrick paul paula pauline pedro peggy peter phil philip phillip phyllis priya rachel
rafael raj ralph ravi raymond rebecca renee ricardo richard rick robert roberto robin roger ronald rosa rosie
ross roy russell ruth ryan sabrina sally samantha samuel sandra sanjay sara sarah scott sean sebastian sergio
shane shannon sharon shaun sheila shirley simon sofia sophia sophie stacy stanley stefan stella stephanie
stephen steve steven stuart sue susan suzanne sven sylvia tamara tanya tara taylor teresa terry theresa thomas
tiffany tim timothy tina todd tom tommy tony tracy travis trevor tyler valerie vanessa vera victoria vincent
virginia vivian walter wanda wayne wendy william yusuf yvonne zachary zoe
"""
GIVEN_NAMES = frozenset(_TEXT.split())
