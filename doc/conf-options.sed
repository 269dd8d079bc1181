# SPDX-License-Identifier: Apache-2.0
# The rows of common/conf.def as a list of mdoc(7).
/^CONF(/!d
s/^CONF(\([a-z0-9_]*\), *\([A-Z0-9]*\), *"\([^"]*\)", *\([0-9-]*\), *\([0-9-]*\), *\([A-Z]*\), *"\(.*\)")$/\1|\2|\3|\4|\5|\6|\7/
s/-/\\-/g
s/|STRING|/|text|/
s/|LIST|/|list|/
s/|FLAG|/|flag|/
s/|SWITCH|/|switch|/
s/|U64|/|number|/
s/|I64|/|number|/
s/|SIZE|/|size|/
s/|MS|/|ms|/
s/^\([^|]*\)|\([^|]*\)|\([^|]*\)|0|0|\([^|]*\)|\(.*\)$/.It Ic \1 No = Ar \2\n\5.\n@default \3\n@\4/
s/^\([^|]*\)|\([^|]*\)|\([^|]*\)|\([^|]*\)|\([^|]*\)|\([^|]*\)|\(.*\)$/.It Ic \1 No = Ar \2\n\7.\nRange: \4 to \5.\n@default \3\n@\6/
s/\n@default \n/\n/
s/\n@default \([^\n]*\)/\nDefault: \1 ./
s/ \.\n@/.\n@/
s/\n@NOW//
s/\n@LATER/\nAccepted, without effect yet./
