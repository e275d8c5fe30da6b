#pragma once

#include "base/error.hpp"
#include "base/url.hpp"

namespace trainctl::data {

/// Runs `body` and appends to its data errors how to download intact files of the data set `type`.
/// Errors that have a hint, or a remote root, are passed on.
template <class Body>
auto with_fetch_advice(const std::string& type, const std::filesystem::path& root, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || is_remote(root) || !error.hint().empty()) throw;
    throw Error(ErrorKind::data,
                fmt::format("{}\nhint: fetch the files with 'scripts/fetch-data {}', or correct "
                            "'root' of the data set",
                            error.message(), type),
                error.where());
  }
}

}  // namespace trainctl::data
