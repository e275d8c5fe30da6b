// This source is empty: it exists so that one target owns the precompiled header.
