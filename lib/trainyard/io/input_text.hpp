#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"

namespace trainyard {

/// Reads a whole file, or standard input for "-". Gzip data are decompressed whatever the file's name is.
///
/// Throws InputError, code "file", if the file does not exist (the help gives the nearest name in its folder), is a
/// folder, cannot be read, is damaged or truncated, or holds more than `limit` bytes. Decompressed data are also
/// limited to the larger of limits::kUncompressedInput and limits::kCompression times the size of the file.
std::string read_input(const std::filesystem::path& path, std::size_t limit = limits::kInput);

/// The first `most` bytes of a file, decompressed, from which the format can be recognized; empty if the file cannot be
/// read. Bytes of standard input ("-") are returned as they are, and read_input() still returns them later.
std::string begin_of_input(const std::filesystem::path& path, std::size_t most = 4096);

/// Whether the data begin as gzip's do.
bool is_gzip(std::string_view data);

/// Name of the input in messages: the path, or "<stdin>" for "-".
std::string input_name(const std::filesystem::path& path);

/// The first key of the JSON object at the beginning of a text; empty if the text begins with anything else.
std::string_view first_key(std::string_view begin);

/// Throws InputError with one finding that concerns the whole file `file`.
[[noreturn]] void refuse_file(const std::string& file, std::string code, std::string message, std::string help);

/// Line and column (in characters, from 1) of the byte at `offset`, with the text of the line. A long line is cut to an
/// excerpt around that byte.
Location location_at(std::string_view file, std::string_view text, std::size_t offset);
/// Location of a line and a column, both from 1.
Location location_at_line(std::string_view file, std::string_view text, int line, int column);

}  // namespace trainyard
