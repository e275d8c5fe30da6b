#pragma once

#include "data/remote/http_client.hpp"

#include <ctime>
#include <string>
#include <vector>

namespace trainctl::data {

/// The headers, "Name: value", that sign a GET with AWS Signature Version 4: `Host` and those of
/// the signature itself. Its URL must be percent-encoded, with its query in alphabetical order; of
/// its other headers, `Range` is signed.
std::vector<std::string> sigv4_headers(const HttpRequest& request, std::time_t now);

/// The value of the header of that name; empty: a whole object.
std::string range_value(const HttpRequest& request);

}  // namespace trainctl::data
