#pragma once

#include <filesystem>
#include <string>

namespace trainctl {

/// Returns whether a path of a config is a URL: http://, https://, s3://, or file:// for a mount
/// that is too slow to be read on each use.
bool is_remote(const std::filesystem::path& path);

/// Returns the key of a path for caches: the path absolute and normalized; a URL stays unchanged.
std::string identity_of(const std::filesystem::path& path);

/// Replaces the user and password of a URL in the text, and the query of an http URL, with stars of
/// the same length, since both may be credentials.
std::string without_credentials(std::string text);

/// Does the same for user and password only.
std::string without_userinfo(std::string text);

}  // namespace trainctl
