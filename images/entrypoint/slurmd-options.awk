# The words slurmd is started with, quoted for a shell, from SLURMD_OPTIONS and then the arguments.
#
# Options are read as a shell would read them (quotes, "$VARIABLE", several words in one argument), because manifests are written
# for images that hand them to one. The value of --conf is the exception: unless it is quoted as a whole it is taken as it
# stands, so that quotes meant for Slurm survive. Several --conf become one; of two items with one key the later counts.
# Nothing is evaluated: an option cannot run a command here.
#
# Added to --conf, unless it already has them:
#   CoreSpecCount, MemSpecLimit   what the machine has beyond POD_CPUS and POD_MEMORY (MiB), so that Slurm plans with the pod's limits
#   Topology                      POD_TOPOLOGY
# $SLINKY_TOPOLOGY in --conf is replaced by its value; a Topology without a value is left out.

BEGIN {
    word_count = 0
    add_words(ENVIRON["SLURMD_OPTIONS"])
    for (position = 1; position < ARGC; position++) {
        argument = ARGV[position]
        if (word_count > 0 && words[word_count] == "--conf") {
            words[++word_count] = conf_value(argument)
        } else if (substr(argument, 1, 7) == "--conf=") {
            words[++word_count] = "--conf"
            words[++word_count] = conf_value(substr(argument, 8))
        } else {
            add_words(argument)
        }
    }

    item_count = 0
    conf_at = 0
    for (position = 1; position <= word_count; position++) {
        value = ""
        if (words[position] == "--conf" && position < word_count) {
            value = words[++position]
        } else if (substr(words[position], 1, 7) == "--conf=") {
            value = substr(words[position], 8)
        } else {
            kept[++kept_count] = words[position]
            continue
        }
        add_items(value)
        if (!conf_at) {
            conf_at = ++kept_count
        }
    }
    add_topology()
    add_limits()

    conf = ""
    for (position = 1; position <= item_count; position++) {
        if (items[position] != "") {
            conf = conf (conf == "" ? "" : " ") items[position]
        }
    }
    for (position = 1; position <= kept_count; position++) {
        if (position != conf_at) {
            line = line " " quoted(kept[position])
        } else if (conf != "") {
            line = line " --conf " quoted(conf)
        }
    }
    if (!conf_at && conf != "") {
        line = line " --conf " quoted(conf)
    }
    print substr(line, 2)
}

function say(text) {
    print "slurmd-options: " text | "cat >&2"
    close("cat >&2")
}

function quoted(text) {
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

# Appends the words of a text as a shell would split it.
function add_words(text,    rest) {
    rest = text
    while (sub(/^[ \t\n]+/, "", rest) || rest != "") {
        if (rest == "") {
            break
        }
        words[++word_count] = unquoted(rest, 1)
        rest = unread
    }
}

# Removes a shell's quoting and puts in the values of variables: up to the first blank outside quotes, or to the end of the text.
# What was not read is left in `unread`.
function unquoted(text, stop_at_blank,    result, quote, character, name) {
    result = ""
    quote = ""
    while (text != "") {
        character = substr(text, 1, 1)
        if (stop_at_blank && quote == "" && character ~ /[ \t\n]/) {
            break
        }
        text = substr(text, 2)
        if (quote == "'") {
            if (character == "'") {
                quote = ""
            } else {
                result = result character
            }
        } else if (character == "\\" && text != "" && (quote == "" || text ~ /^["\\$`]/)) {
            result = result substr(text, 1, 1)
            text = substr(text, 2)
        } else if (character == "\"") {
            quote = quote == "" ? "\"" : ""
        } else if (character == "'" && quote == "") {
            quote = "'"
        } else if (character == "$" && match(text, /^([A-Za-z_][A-Za-z0-9_]*|[{][A-Za-z_][A-Za-z0-9_]*[}])/)) {
            name = substr(text, 1, RLENGTH)
            text = substr(text, RLENGTH + 1)
            gsub(/[{}]/, "", name)
            result = result (name == "SLINKY_TOPOLOGY" ? topology(name) : ENVIRON[name])
        } else {
            result = result character
        }
    }
    unread = text
    return result
}

function conf_value(text) {
    return text ~ /^['"]/ ? unquoted(text, 0) : text
}

# The value of a topology variable; nothing where it would break the line it is put into.
function topology(name,    value) {
    value = ENVIRON[name]
    if (value ~ /[ \t\n"'=#$\\]/) {
        say(name " is left out: `" value "` is not a topology (such as `tree:leaf1,block:b2`)")
        return ""
    }
    return value
}

# Replaces each $SLINKY_TOPOLOGY still in the text, with the quotes that were put around it for a shell.
function with_topology(text,    result) {
    result = ""
    while (match(text, /'?"?\$([{]SLINKY_TOPOLOGY[}]|SLINKY_TOPOLOGY)"?'?/)) {
        result = result substr(text, 1, RSTART - 1) topology("SLINKY_TOPOLOGY")
        text = substr(text, RSTART + RLENGTH)
    }
    return result text
}

# Takes a line apart into its Key=Value items; blanks inside double quotes belong to the value.
function add_items(text,    character, item, in_quotes) {
    text = with_topology(text) " "
    item = ""
    in_quotes = 0
    while (text != "") {
        character = substr(text, 1, 1)
        text = substr(text, 2)
        if (character == "\"") {
            in_quotes = !in_quotes
        }
        if (character ~ /[ \t\n]/ && !in_quotes) {
            if (item != "") {
                add_item(item)
            }
            item = ""
        } else {
            item = item character
        }
    }
    if (item != "") {
        add_item(item)
    }
}

function key_of(item) {
    item = tolower(item)
    sub(/=.*/, "", item)
    return item == "feature" ? "features" : item
}

function add_item(item,    key) {
    key = key_of(item)
    if (key in item_of) {
        items[item_of[key]] = ""
    }
    items[++item_count] = item
    item_of[key] = item_count
}

# What --conf says about a key, or `otherwise`.
function given(key, otherwise,    value) {
    if (!(key in item_of)) {
        return otherwise
    }
    value = items[item_of[key]]
    sub(/^[^=]*=/, "", value)
    gsub(/"/, "", value)
    return value
}

function add_topology() {
    if (("topology" in item_of) && given("topology", "") == "") {
        items[item_of["topology"]] = ""
        delete item_of["topology"]
    }
    if (!("topology" in item_of) && topology("POD_TOPOLOGY") != "") {
        add_item("Topology=" ENVIRON["POD_TOPOLOGY"])
    }
}

# A limit given by the pod as a whole number; 0 stands for none.
function limit(name,    value) {
    value = ENVIRON[name]
    if (value != "" && value !~ /^[0-9]+$/) {
        say(name " is left out: `" value "` is not a whole number")
        return 0
    }
    return value + 0
}

function add_limits(    cpus, memory, output, count, pairs, pair, machine, threads, cores, kept_cores) {
    cpus = limit("POD_CPUS")
    memory = limit("POD_MEMORY")
    if (!cpus && !memory) {
        return
    }
    while (("slurmd -C" | getline output) > 0) {
        count = split(output, pairs, " ")
        for (; count > 0; count--) {
            split(pairs[count], pair, "=")
            machine[tolower(pair[1])] = pair[2]
        }
    }
    close("slurmd -C")
    if (!("realmemory" in machine)) {
        say("POD_CPUS and POD_MEMORY are left out: `slurmd -C` does not say what this machine has")
        return
    }

    # Where --conf describes the node, the rest of it is counted from that and not from the machine.
    threads = given("threadspercore", machine["threadspercore"])
    if (("cpus" in item_of) && !("corespersocket" in item_of)) {
        cores = int(given("cpus", 0) / threads)
    } else {
        cores = given("boards", machine["boards"]) * given("socketsperboard", machine["socketsperboard"])
        cores = given("sockets", cores) * given("corespersocket", machine["corespersocket"])
    }
    # A limit below one core still leaves one: a node without a usable core could run nothing.
    kept_cores = int(cpus / threads)
    kept_cores = kept_cores > 0 ? kept_cores : 1
    if (cpus && cores > kept_cores && !("corespeccount" in item_of) && !("cpuspeclist" in item_of)) {
        add_item("CoreSpecCount=" (cores - kept_cores))
    }
    memory = memory ? given("realmemory", machine["realmemory"]) - memory : 0
    if (memory > 0 && !("memspeclimit" in item_of)) {
        add_item("MemSpecLimit=" memory)
    }
}
