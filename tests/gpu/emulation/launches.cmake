# Rewrites the launches of a .cu file for the emulation (kernel_code.h); everything else stays as it
# is, and on its line. cmake -DFROM=rows.cu -DTO=rows.cc -P launches.cmake
file(READ "${FROM}" text)
set(argument "([A-Za-z0-9_]+)")
string(REGEX REPLACE
    "([a-z_]+(<[A-Za-z]+>)?)<<<${argument}, ${argument}, ${argument}, ${argument}>>>\\(\\*args\\)"
    "EMULATION_LAUNCH((\\1), \\3, \\4, \\5, \\6, *args)" launched "${text}")
if(launched MATCHES "[^\n]*<<<[^\n]*")
    message(FATAL_ERROR "${FROM}: launches.cmake does not know how to rewrite\n${CMAKE_MATCH_0}\n"
        "It knows kernel<<<blocks, threads, bytes, stream>>>(*args), with names and numbers in it.")
endif()
string(REGEX MATCHALL "EMULATION_LAUNCH" launches "${launched}")
if(NOT launches)
    message(FATAL_ERROR "${FROM} launches no kernel")
endif()
file(WRITE "${TO}" "#line 1 \"${FROM}\"\n${launched}")
