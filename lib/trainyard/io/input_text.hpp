#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"

namespace trainyard {

/// The whole file, or standard input for "-". Gzip data, whatever the name, are decompressed. Throws InputError, code
/// "file": it does not exist (with the nearest name in its folder), is a folder, may not be read, is damaged or cut
/// short, or holds more than `limit` bytes (nor, compressed, more than limits::kUncompressedInput and
/// limits::kCompression times as much as the file).
std::string read_input(const std::filesystem::path& path, std::size_t limit = limits::kInput);

/// The first `most` bytes of a file, decompressed, by which readers tell formats apart; nothing where it cannot be
/// read. Of standard input ("-") as they are; read_input() has them, too.
std::string begin_of_input(const std::filesystem::path& path, std::size_t most = 4096);

/// Name of the input in messages: the path, or "<stdin>".
std::string input_name(const std::filesystem::path& path);

/// The first key of the JSON object with which a text begins; empty where it begins with anything else.
std::string_view first_key(std::string_view begin);

/// Throws InputError with one finding on the whole file, of this name.
[[noreturn]] void refuse_file(const std::string& file, std::string code, std::string message, std::string help);

/// Line and column (in characters, from 1) of a byte of the text, and the line itself: an excerpt where it is long.
Location location_at(std::string_view file, std::string_view text, std::size_t offset);
/// Location from a line and a column.
Location location_at_line(std::string_view file, std::string_view text, int line, int column);

}  // namespace trainyard
