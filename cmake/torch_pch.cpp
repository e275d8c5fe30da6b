// Nothing here: this source exists so that one target owns the precompiled header.
