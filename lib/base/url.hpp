#pragma once

#include <filesystem>
#include <string>

namespace trainctl {

/// Whether a path of a config names something outside this machine's folders: http://, https://,
/// s3://, or file:// for a mount that is too slow to be read at each use.
bool is_remote(const std::filesystem::path& path);

/// The path as caches name it: absolute and without detours; a URL stays as it is.
std::string identity_of(const std::filesystem::path& path);

/// The text with stars where a URL in it holds a user and password, or an http URL a query: both
/// may be credentials. Of the same length.
std::string without_credentials(std::string text);

/// The same for user and password alone.
std::string without_userinfo(std::string text);

}  // namespace trainctl
