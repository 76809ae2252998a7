#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/cost/profile.hpp"

namespace trainyard {

/// Reads a `trainyard-profile/1` file ("-" is standard input). Throws InputError with positions. The codes are those of
/// every JSON file (read_graph), "duplicate-name" for two devices with the same name, "too-large" for more than
/// limits::kProfiledDevices devices, and "unknown-device" for a measurement on a device that "devices" does not list.
/// "host" is always known as an end of a link.
Profile read_profile(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Profile parse_profile(std::string_view text, const std::string& name);

/// Writes the profile so that reading it gives an equal one. Throws as parse_profile() does and then writes nothing,
/// for example for an op with neither name nor signature.
void write_profile(const Profile& profile, std::ostream& out);

}  // namespace trainyard
