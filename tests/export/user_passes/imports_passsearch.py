from passsearch import core

Mine = core.PassSpec
