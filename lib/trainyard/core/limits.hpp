#pragma once

#include <cstddef>

/// How much an input may ask for, so that a small file or a word takes neither gigabytes nor minutes: what is beyond is
/// refused with a message before anything is allocated for it. Studies stay below; what would limit them first is time.
namespace trainyard::limits {

/// Devices of a cluster: of a fabric, which stores no routes. About the largest machines that there are.
inline constexpr std::size_t kDevices = std::size_t{1} << 17;
/// Devices of a cluster with a route for each pair: 2^22 routes take 160 MB. Larger machines are fabrics.
inline constexpr std::size_t kRoutedDevices = std::size_t{1} << 11;
/// Links on all these routes together, at 8 bytes each: those of a star of so many devices are a quarter.
inline constexpr std::size_t kRouteLinks = std::size_t{1} << 25;
/// Devices times directions of links, as every direction is looked at for the routes of every device: some seconds.
inline constexpr std::size_t kRouteSteps = std::size_t{1} << 28;
/// Ops that the rewrites of a schedule make, all of them together, and what these read and wait for: half a gigabyte.
inline constexpr std::size_t kRewrittenOps = std::size_t{1} << 20;
inline constexpr std::size_t kRewrittenReads = std::size_t{1} << 23;
/// Or so many times what the graph has, up to these, 5 GB: the largest published plans need them (GPT of 10^12
/// parameters on 512 GPUs with 512 microbatches: 5.5 million ops).
inline constexpr std::size_t kRewrittenTimes = 1'024;
inline constexpr std::size_t kMostRewrittenOps = 6'000'000;
inline constexpr std::size_t kMostRewrittenReads = 24'000'000;
/// Ops of several steps that are simulated one behind the other, where they are more than a few: 2 GB.
inline constexpr std::size_t kStepOps = 2'000'000;
/// Columns of an integer program, and numbers in the tables of a MiniZinc model: a gigabyte or so of text.
inline constexpr std::size_t kColumns = 2'000'000;
inline constexpr std::size_t kTableNumbers = 200'000'000;
/// Rows of a study, which are made one by one.
inline constexpr std::size_t kStudyRows = 1'000'000'000;
/// Devices of a profile, which is of one machine.
inline constexpr std::size_t kProfiledDevices = 1'000;
/// Bytes of an input; of what was compressed, once it is not, since a few megabytes can hide it (a file that is large
/// itself may be so many times larger: graphs are 6 to 24); of a TOML file, which takes thirty times as much to parse.
inline constexpr std::size_t kInput = std::size_t{1} << 32;
inline constexpr std::size_t kUncompressedInput = std::size_t{1} << 30;
inline constexpr std::size_t kCompression = 50;
inline constexpr std::size_t kToml = std::size_t{1} << 25;
/// Dots of a key in TOML, for each of which its parser calls itself. Clusters and studies have none.
inline constexpr std::size_t kTomlDots = 16;

}  // namespace trainyard::limits
