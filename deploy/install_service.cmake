# install_service.cmake - installs the units and the configuration of the service, with the folders of the prefix.
#
# Given: source and build, this folder in the tree and in the build; bindir and sysconfdir, which may be relative.
if(NOT IS_ABSOLUTE "${sysconfdir}")
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        set(sysconfdir /${sysconfdir})
    else()
        set(sysconfdir ${CMAKE_INSTALL_PREFIX}/${sysconfdir})
    endif()
endif()
if(NOT IS_ABSOLUTE "${bindir}")
    set(bindir ${CMAKE_INSTALL_PREFIX}/${bindir})
endif()

foreach(unit IN ITEMS tensord.service tensord.socket)
    file(READ ${source}/systemd/${unit} text)
    # The comment that says how to install it.
    string(REGEX REPLACE "#\n#   cmake [^\n]*\n" "#\n" text "${text}")
    string(REPLACE /usr/local/bin/ ${bindir}/ text "${text}")
    string(REPLACE /etc/tensord/ ${sysconfdir}/tensord/ text "${text}")
    file(WRITE ${build}/${unit} "${text}")
    # systemd looks for units there, in /usr and in /usr/local.
    file(INSTALL ${build}/${unit} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
endforeach()

# What an administrator has written stays.
if(NOT EXISTS "$ENV{DESTDIR}${sysconfdir}/tensord/tensord.json")
    file(INSTALL ${source}/systemd/tensord.json DESTINATION ${sysconfdir}/tensord)
endif()
