#pragma once

#include "data/core/registry.hpp"
#include "data/pack/pack_format.hpp"

#include <string>

namespace trainctl::data {

/// Records the source of a pack: the options of the data set, and the times and sizes of all
/// folders that they name and, if there are few, of all files. Must be called before the data set
/// is opened. A remote source, or one without files, has no marks.
PackOrigin record_origin(const config::Stage& source);

/// Throws Error(data) when the source exists and now has other samples. Cheap for an unchanged
/// source: one stat() per mark. Otherwise opens the source and compares fingerprints.
void check_pack_origin(const PackHeader& header, const PackOrigin& origin, const Catalog& catalog,
                       const std::string& file);

/// Throws Error(data) unless the pack was made from a source with this fingerprint.
void check_pack_source(const PackHeader& header, const std::string& fingerprint,
                       const std::string& file);

}  // namespace trainctl::data
